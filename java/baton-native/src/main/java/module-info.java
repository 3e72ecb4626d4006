/** The engine {@code native}: the engines of the C++ library, for JDK 22 and newer. */
module io.baton.nativeengine {
  requires io.baton.core;
  requires jdk.net;

  provides io.baton.spi.EngineProvider with
      io.baton.nativeengine.NativeEngineProvider;
}
