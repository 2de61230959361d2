def flip(image):
return image[::-1]
