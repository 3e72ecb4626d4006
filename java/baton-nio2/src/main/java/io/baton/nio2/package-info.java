/**
 * Asynchronous channels of {@code java.nio.channels} (NIO.2) on a Baton engine (J-05).
 *
 * <p>Programs name no class of this package. The one public class is named by the property {@code
 * java.nio.channels.spi.AsynchronousChannelProvider}; the channels and groups behave as the JDK
 * documents them.
 */
package io.baton.nio2;
