package io.baton;

import java.util.Arrays;

/**
 * The deadlines of a lane: a binary heap whose entries store their places, so that removing one
 * needs no search. For one thread.
 */
final class TimerHeap {
  private Timed[] heap = new Timed[64];
  private int size;

  boolean isEmpty() {
    return size == 0;
  }

  /** The earliest deadline; not for an empty heap. */
  long earliest() {
    return heap[0].deadline;
  }

  void add(Timed timed) {
    if (size == heap.length) {
      heap = Arrays.copyOf(heap, 2 * size);
    }
    // In the heap before the calls: the stack of the caller may end inside.
    heap[size] = timed;
    timed.heapIndex = size++;
    up(timed.heapIndex, timed);
  }

  void remove(Timed timed) {
    int index = timed.heapIndex;
    if (index == Timed.NOT_IN_HEAP) {
      return;
    }
    timed.heapIndex = Timed.NOT_IN_HEAP;
    Timed last = heap[--size];
    heap[size] = null;
    if (last != timed) {
      up(index, last);
      down(last.heapIndex, last);
    }
  }

  /** Takes out the earliest if its deadline has passed, else null. */
  Timed pollExpired(long now) {
    if (size == 0 || heap[0].deadline - now > 0) {
      return null;
    }
    Timed first = heap[0];
    remove(first);
    return first;
  }

  /** Takes out any one, or null. */
  Timed pollAny() {
    if (size == 0) {
      return null;
    }
    Timed last = heap[size - 1];
    remove(last);
    return last;
  }

  private void up(int hole, Timed timed) {
    int index = hole;
    while (index > 0) {
      Timed parent = heap[(index - 1) / 2];
      if (parent.deadline - timed.deadline <= 0) {
        break;
      }
      put(index, parent);
      index = (index - 1) / 2;
    }
    put(index, timed);
  }

  private void down(int hole, Timed timed) {
    int index = hole;
    while (2 * index + 1 < size) {
      int child = 2 * index + 1;
      if (child + 1 < size && heap[child + 1].deadline - heap[child].deadline < 0) {
        child++;
      }
      if (timed.deadline - heap[child].deadline <= 0) {
        break;
      }
      put(index, heap[child]);
      index = child;
    }
    put(index, timed);
  }

  private void put(int index, Timed timed) {
    heap[index] = timed;
    timed.heapIndex = index;
  }
}
