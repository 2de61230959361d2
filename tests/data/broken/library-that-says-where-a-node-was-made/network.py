import tensorflow as tf


def build():
    model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
    model.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
