/** The rules of the written contract as tests that every engine has to pass. */
package io.baton.test;
