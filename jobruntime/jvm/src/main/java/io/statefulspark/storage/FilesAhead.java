package io.statefulspark.storage;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * Files of the object store that a standby has read ahead into a folder of this machine.
 *
 * <p>A file lies below the folder at {@code <bucket>/<key>}, and is there only when it is complete. Only files that never
 * change and whose names nobody uses again may be put there (snapshots, changelogs and tables of RocksDB), since nobody
 * asks the store whether they are current.
 *
 * <p>Nothing is taken before {@link #offer}: a standby's rehearsals read from the store. A file is taken once, by a move, so
 * that it never needs its space twice; whoever asks for it again reads it from the store.
 */
public final class FilesAhead {
  private static volatile Path folder;

  private FilesAhead() {}

  /**
   * Lets this process read the files of a folder instead of those on the store.
   *
   * @param path the folder
   */
  public static void offer(String path) {
    folder = Path.of(path);
  }

  /** Ends the offer; what is in the folder stays. */
  public static void withdraw() {
    folder = null;
  }

  /**
   * Moves a file to where it is needed.
   *
   * @param source the file on the store
   * @param target the place for it; a file there is replaced
   * @return whether it was here, and is there now
   * @throws IOException if it was here and could not be moved
   */
  static boolean take(org.apache.hadoop.fs.Path source, Path target) throws IOException {
    Path copy = copyOf(source);
    if (copy == null) {
      return false;
    }
    Files.move(copy, target, StandardCopyOption.REPLACE_EXISTING);
    return true;
  }

  /**
   * Returns the copy of a file.
   *
   * @param source the file on the store
   * @return the copy; null if there is none
   */
  static Path copyOf(org.apache.hadoop.fs.Path source) {
    Path offered = folder;
    if (offered == null) {
      return null;
    }
    java.net.URI uri = source.toUri();
    Path copy = offered.resolve(uri.getAuthority() + uri.getPath()).normalize();
    return copy.startsWith(offered) && Files.isRegularFile(copy) ? copy : null;
  }
}
