/**
 * The interface of Baton for Java: start an operation, be called when it is done.
 *
 * <p>A {@link io.baton.Demultiplexor} has a few threads, its lanes. An {@link
 * io.baton.AsynchChannel} belongs to one of them and to one {@link io.baton.AsynchHandler}, whose
 * methods that lane calls, one at a time. Operations may be started by any thread.
 *
 * <p>Every operation that starts completes once, never inside the call that starts it. Its buffer
 * is the library's from the start until the handler is called.
 */
package io.baton;
