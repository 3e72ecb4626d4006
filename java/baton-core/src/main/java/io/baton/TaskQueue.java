package io.baton;

/** First in, first out, without allocation. For one thread. */
final class TaskQueue<T extends Task> {
  private T head;
  private T tail;

  boolean isEmpty() {
    return head == null;
  }

  T peek() {
    return head;
  }

  void add(T task) {
    if (head == null) {
      head = task;
    } else {
      tail.next = task;
    }
    tail = task;
  }

  T poll() {
    T first = head;
    if (first != null) {
      head = after(first);
      if (head == null) {
        // An idle lane must not keep its last task, and what that refers to.
        tail = null;
      }
      first.next = null;
    }
    return first;
  }

  /** The one behind {@code task}, or null. */
  @SuppressWarnings("unchecked") // only T are added
  T after(T task) {
    return (T) task.next;
  }

  /** Takes out a task; it may not be there. Looks through the whole queue. */
  boolean remove(T task) {
    T before = null;
    for (T here = head; here != null; before = here, here = after(here)) {
      if (here == task) {
        T behind = after(here);
        if (before == null) {
          head = behind;
        } else {
          before.next = behind;
        }
        if (tail == here) {
          tail = before;
        }
        here.next = null;
        return true;
      }
    }
    return false;
  }
}
