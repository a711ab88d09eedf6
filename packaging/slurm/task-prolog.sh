#!/bin/sh
# An example of a TaskProlog (slurm.conf) for sites without SPANK plugins. Jobs switch Outrigger on by
#
#     SITE_OUTRIGGER=openmpi srun -n 64 ./prog        (or mpich, mpiabi)
#
# Slurm sets a variable in each task for each line `export NAME=value` that a task prolog prints.
prefix=${SITE_OUTRIGGER_PREFIX:-/opt/outrigger}

case ${SITE_OUTRIGGER:-off} in
openmpi | mpich | mpiabi)
  library=$prefix/lib/liboutrigger-$SITE_OUTRIGGER.so
  if [ -r "$library" ]; then
    echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}"
  else
    echo "print outrigger: running natively: $library is not there"
  fi
  ;;
esac
