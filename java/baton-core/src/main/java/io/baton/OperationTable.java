package io.baton;

/**
 * Operations without an order, found by their numbers: there may be as many as operations_max. For
 * the lane's thread.
 */
final class OperationTable {
  private static final int FIRST_SIZE = 8;

  // Numbers follow each other, and without this their places would be one long row.
  private static final long SCATTER = 0x9E3779B97F4A7C15L;

  // A power of two places, at most half of them taken; null until the first operation. An operation
  // is at the place of its number, or behind it where the next one was free.
  private Operation[] places;
  private int count;

  /**
   * Adds an operation.
   *
   * @throws VirtualMachineError if there is no memory or no stack; nothing is changed then
   */
  void add(Operation operation) {
    if (places == null || 2 * count >= places.length) {
      grow();
    }
    put(operation);
    count++;
  }

  Operation find(long activation) {
    return count == 0 ? null : places[placeOf(activation)];
  }

  /** Removes an operation, if it is there. The place may be another's afterwards. */
  void remove(Operation operation) {
    if (find(operation.activation) != operation) {
      return;
    }
    int hole = placeOf(operation.activation);
    places[hole] = null;
    count--;
    // Those behind it may have been kept from a better place.
    for (int i = next(hole); places[i] != null; i = next(i)) {
      Operation moved = places[i];
      places[i] = null;
      put(moved);
    }
  }

  /** The number of places, for a walk through all of them. */
  int size() {
    return places == null ? 0 : places.length;
  }

  /** The operation at a place, or null. */
  Operation at(int place) {
    return places[place];
  }

  private void grow() {
    Operation[] before = places;
    places = new Operation[before == null ? FIRST_SIZE : 2 * before.length];
    try {
      for (int i = 0; before != null && i < before.length; i++) {
        if (before[i] != null) {
          put(before[i]);
        }
      }
    } catch (StackOverflowError e) {
      places = before;
      throw e;
    }
  }

  private void put(Operation operation) {
    places[placeOf(operation.activation)] = operation;
  }

  /** Where the operation with this number is, or would be put. */
  private int placeOf(long activation) {
    int place = (int) (activation * SCATTER >>> 32) & places.length - 1;
    while (places[place] != null && places[place].activation != activation) {
      place = next(place);
    }
    return place;
  }

  private int next(int place) {
    return place + 1 & places.length - 1;
  }
}
