#!/bin/sh
# Services are runit's here: no package may start one on its own.
exit 101
