package io.baton.spi;

import java.io.IOException;
import java.util.Set;

/**
 * Makes engines; one provider is one entry in the list of engines.
 *
 * <p><b>Threads:</b> {@link #open} is called by the lane's own thread, everything else by any
 * thread. Providers are found by {@link java.util.ServiceLoader} and need a public constructor
 * without arguments.
 */
public interface EngineProvider {

  /**
   * The word of {@code engine=}, for example {@code nio}.
   *
   * @return letters, digits, {@code _} and {@code -} only
   */
  String name();

  /**
   * Which engine {@code engine=auto} takes: the available one with the highest priority. The engine
   * {@code nio} has 0.
   *
   * @return any number
   */
  int priority();

  /**
   * Why this engine is not available here.
   *
   * @return null if it is, else the reason, with a message for people
   */
  Throwable unavailabilityCause();

  /**
   * The words that {@link EngineSettings#words()} may have for this engine.
   *
   * @return the names of its own settings
   */
  default Set<String> settingNames() {
    return Set.of();
  }

  /**
   * Makes the engine of one lane.
   *
   * @param settings of the Demultiplexor
   * @return a new engine
   * @throws IOException if the system refuses a need of the engine; the message names it
   */
  Engine open(EngineSettings settings) throws IOException;
}
