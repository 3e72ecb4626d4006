package io.baton.spi;

import java.util.Map;

/**
 * The settings that an engine is opened with. Immutable.
 *
 * @param lane number of the lane, from 0
 * @param lanes number of lanes of the Demultiplexor
 * @param words the settings that are the engine's own; all names are in {@link
 *     EngineProvider#settingNames()}
 */
public record EngineSettings(int lane, int lanes, Map<String, String> words) {

  /**
   * Copies the words.
   *
   * @param lane number of the lane, from 0
   * @param lanes number of lanes of the Demultiplexor
   * @param words the engine's own settings
   */
  public EngineSettings {
    words = Map.copyOf(words);
  }
}
