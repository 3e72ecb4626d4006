package io.baton.test;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The engine that a class of tests, with the classes inside it, is for. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface EngineWords {
  /**
   * Words and their values, as in the property {@code baton}.
   *
   * @return {@code engine=NAME} and what else is to be set, with commas between
   */
  String value();
}
