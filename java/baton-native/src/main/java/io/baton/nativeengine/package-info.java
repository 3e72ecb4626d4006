/**
 * The engine {@code native}: transfers by the C interface of libbaton, through the Foreign Function
 * and Memory API.
 *
 * <p>This class path entry works on every JDK from 17 on. Only {@link
 * io.baton.nativeengine.NativeEngineProvider} is for all of them: it loads the rest, which is
 * compiled for JDK 22, where the JDK is new enough.
 */
package io.baton.nativeengine;
