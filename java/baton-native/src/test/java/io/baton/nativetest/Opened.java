package io.baton.nativetest;

import io.baton.Demultiplexor;

/**
 * Opens the best engine and prints which one it is: a program on the class path that uses the
 * library as modules. It is in a package that no module has.
 */
public final class Opened {
  private Opened() {}

  /**
   * Prints one line.
   *
   * @param arguments none
   * @throws Exception if there is no engine
   */
  public static void main(String[] arguments) throws Exception {
    try (Demultiplexor demultiplexor = Demultiplexor.builder().threads(1).open()) {
      Module module = ModuleLayer.boot().findModule("io.baton.nativeengine").orElseThrow();
      System.out.println(demultiplexor.getEngine() + " " + module);
    }
  }
}
