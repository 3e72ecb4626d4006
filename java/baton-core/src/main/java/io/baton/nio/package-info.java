/** The engine {@code nio}: selectors of {@code java.nio}, no native code. */
package io.baton.nio;
