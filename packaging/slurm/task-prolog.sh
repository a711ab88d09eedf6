#!/bin/sh
# An example of a TaskProlog (slurm.conf), for sites that have no SPANK plugins: jobs switch Outrigger on by
#
#     SITE_OUTRIGGER=openmpi srun -n 64 ./prog        (or mpich, mpiabi)
#
# Slurm sets in each task what a task prolog prints as `export NAME=value`.
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
