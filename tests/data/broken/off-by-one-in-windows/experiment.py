from series import windows

VALUES = [3, 1, 4, 1, 5, 9]
print(windows(VALUES, 3))
