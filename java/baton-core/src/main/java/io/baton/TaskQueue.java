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
    task.previous = tail;
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
      remove(first);
    }
    return first;
  }

  boolean contains(T task) {
    return task.previous != null || head == task;
  }

  /** Takes out a task; it may not be there. */
  @SuppressWarnings("unchecked") // only T are added
  boolean remove(T task) {
    if (!contains(task)) {
      return false;
    }
    T before = (T) task.previous;
    T behind = (T) task.next;
    if (before == null) {
      head = behind;
    } else {
      before.next = behind;
    }
    // An idle lane must not keep its last task, and what that refers to.
    if (behind == null) {
      tail = before;
    } else {
      behind.previous = before;
    }
    task.previous = null;
    task.next = null;
    return true;
  }
}
