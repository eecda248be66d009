# Faults under load, on processes of this machine: no cluster, no root. Included by the root Makefile.

.PHONY: faults soak
FAULTS ?=
MINUTES ?= 60
SEED ?=
FAULTS_NEED = $(STAMPS)/venv jars servers $(VERSITYGW)

faults: $(FAULTS_NEED) ## Every fault under load against the truth, from where an earlier run ended (FAULTS="--scenario s3-")
	PYTHONPATH=e2e:tests/support $(BIN)/python -m faults $(FAULTS)

soak: $(FAULTS_NEED) ## Random faults under load for MINUTES=60, seeded (SEED=); an interrupted soak goes on
	PYTHONPATH=e2e:tests/support $(BIN)/python -m faults.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))
