package io.baton.nativeengine;

/**
 * Requests that wait to be handed to the library, in order. Needs no memory, and takes out any of
 * them without a search. For one thread.
 */
final class RequestQueue {
  private Request first;
  private Request last;
  private int size;

  int size() {
    return size;
  }

  boolean isEmpty() {
    return size == 0;
  }

  void add(Request request) {
    link(last, request, null);
  }

  void addFirst(Request request) {
    link(null, request, first);
  }

  /** Null if there is none. */
  Request poll() {
    Request taken = first;
    if (taken != null) {
      remove(taken);
    }
    return taken;
  }

  /** Takes out a request, if it is there. */
  void remove(Request request) {
    Request before = request.previous;
    if (before == null && first != request) {
      return;
    }
    Request behind = request.following;
    if (before == null) {
      first = behind;
    } else {
      before.following = behind;
    }
    if (behind == null) {
      last = before;
    } else {
      behind.previous = before;
    }
    request.previous = null;
    request.following = null;
    size--;
  }

  private void link(Request before, Request request, Request behind) {
    request.previous = before;
    request.following = behind;
    if (before == null) {
      first = request;
    } else {
      before.following = request;
    }
    if (behind == null) {
      last = request;
    } else {
      behind.previous = request;
    }
    size++;
  }
}
