/**
 * The interface of an engine: the part that turns started transfers into completed ones.
 *
 * <p>An engine serves one lane, and a lane is one thread. Queues, deadlines, cancellation by name,
 * whole reads and writes, pools and handlers are the library's; an engine only moves bytes. Engines
 * are found by {@link java.util.ServiceLoader}.
 */
package io.baton.spi;
