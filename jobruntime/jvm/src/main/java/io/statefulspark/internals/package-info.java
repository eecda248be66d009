/**
 * What differs between the releases of Spark that one jar runs on.
 *
 * <p>The rest of this jar calls what all of them have. It is compiled against one release, and linked against the installed
 * one: a class that needs more than the oldest release has is used only where the driver has found that release.
 */
package io.statefulspark.internals;
