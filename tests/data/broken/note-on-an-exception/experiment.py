def layer(number):
    try:
        raise ValueError("bad shape")
    except ValueError as error:
        error.add_note(f"Layer: {number}")
        error.add_note('  File "plan.md", line 3, in section')
        raise


layer(3)
