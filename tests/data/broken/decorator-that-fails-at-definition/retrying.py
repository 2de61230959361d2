def retry(times):
    return lambda function: function
