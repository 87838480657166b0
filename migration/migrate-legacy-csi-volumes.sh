#!/bin/sh
# Migrates legacy volumes of a Weka filesystem to quotas:
#   migrate-legacy-csi-volumes.sh FILESYSTEM [--csi-volumes-dir DIR] [--endpoint-address ADDRESS:PORT]
# All arguments are those of `stowage migrate weka-legacy`, which also says how it gets credentials. STOWAGE names the program, if it
# is not in the PATH.
exec "${STOWAGE:-stowage}" migrate weka-legacy "$@"
