from ridge import Ridge

Ridge(penalty=0.0).fit([[1.0, 2.0], [2.0, 4.0]], [1.0, 2.0])
