package io.statefulspark.checkpoint;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.fs.Path;

/** Publishes files atomically; one implementation per kind of storage. */
interface FilePublisher {

  /** A file that is being written and is not visible yet. */
  interface Draft {
    OutputStream stream();

    /**
     * Makes the file visible.
     *
     * @throws org.apache.hadoop.fs.FileAlreadyExistsException it must not be overwritten, and another writer created it
     * @throws IOException it is unknown whether the file is visible
     */
    void publish() throws IOException;

    /** Discards the file; never throws. */
    void discard();
  }

  /** Starts a file that must not exist when it is published. */
  Draft create(Path path) throws IOException;

  /** Starts a file that replaces an existing one. */
  Draft replace(Path path) throws IOException;
}
