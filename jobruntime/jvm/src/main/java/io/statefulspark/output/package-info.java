/**
 * The numbers of batches that sinks outside of this product are told.
 *
 * <p>A sink that counts batches leaves out those whose numbers it knows. So no number may stand for two inputs.
 */
package io.statefulspark.output;
