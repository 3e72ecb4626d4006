/** Echo servers, one thread each unless told otherwise, for {@code bench/java.py}. */
package io.baton.bench;
