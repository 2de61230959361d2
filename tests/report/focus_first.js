document.querySelector("#ideas tr[data-id] a").focus()
