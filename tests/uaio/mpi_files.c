/* Non-blocking file I/O of MPI: every process writes its pieces of one file, all of them at once,
 * and reads those of its neighbour back. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { pieces = 16, numbers = 4096 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_File file;
  if (argc != 2 || MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR,
                                 MPI_INFO_NULL, &file) != MPI_SUCCESS) {
    fprintf(stderr, "mpi_files FILE: cannot open\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  static int written[pieces][numbers];
  static int read[pieces][numbers];
  MPI_Request requests[pieces];
  MPI_Status statuses[pieces];
  const MPI_Offset piece_bytes = numbers * (MPI_Offset)sizeof(int);
  for (int i = 0; i < pieces; ++i) {
    for (int at = 0; at < numbers; ++at) written[i][at] = rank * 1000003 + i * 4099 + at;
    MPI_File_iwrite_at(file, (rank * pieces + i) * piece_bytes, written[i], numbers, MPI_INT,
                       &requests[i]);
  }
  MPI_Waitall(pieces, requests, statuses);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  const int other = (rank + 1) % size;
  for (int i = 0; i < pieces; ++i) {
    MPI_File_iread_at(file, (other * pieces + i) * piece_bytes, read[i], numbers, MPI_INT,
                      &requests[i]);
  }
  MPI_Waitall(pieces, requests, statuses);
  int wrong = 0;
  for (int i = 0; i < pieces; ++i) {
    for (int at = 0; at < numbers; ++at) {
      wrong += read[i][at] != other * 1000003 + i * 4099 + at;
    }
  }
  MPI_File_close(&file);
  int sum = 0;
  MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d processes, %d wrong numbers\n", size, sum);
  MPI_Finalize();
  return sum == 0 ? 0 : 1;
}
