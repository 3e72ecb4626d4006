package io.baton;

import java.io.IOException;

/** A read-until filled its buffer without finding the delimiter. */
public final class DelimiterNotFoundException extends IOException {
  private static final long serialVersionUID = 1;

  DelimiterNotFoundException(String message) {
    super(message);
  }
}
