package io.statefulspark.checkpoint;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.fs.Path;

/** Makes files appear whole and at once; one implementation per kind of storage. */
interface FilePublisher {

  /** A file that is being written and that nobody sees yet. */
  interface Draft {
    OutputStream stream();

    /**
     * Makes the file visible.
     *
     * @throws org.apache.hadoop.fs.FileAlreadyExistsException it must not be overwritten, and another writer was first
     * @throws IOException it is not known to be visible
     */
    void publish() throws IOException;

    /** Forgets the file; never throws. */
    void discard();
  }

  /** Starts a file that must not exist when it is published. */
  Draft create(Path path) throws IOException;

  /** Starts a file that takes the place of an existing one. */
  Draft replace(Path path) throws IOException;
}
