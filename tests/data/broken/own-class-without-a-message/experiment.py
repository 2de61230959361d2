from stopping import watch

watch([0.5, 0.5, 0.5])
