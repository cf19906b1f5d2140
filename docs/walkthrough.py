# %% [markdown]
# # From a table to an audited release
#
# A health office knows where its patients live and wants to publish where five clinics should
# stand. It must not reveal where anybody lives. This walk-through takes it from the table to a
# release that a third party can check, in the order in which you would do it yourself.
#
# Run it as a script (`python docs/walkthrough.py`, in a folder where it may write), or cell by cell
# in an editor that understands `# %%`. It uses the bundled, made-up table and takes about half a
# minute.

# %%
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import dpkv
from dpkv.paper.datasets.clinic import COLUMNS, clinic_patients
from dpkv.paper.datasets.families import mixture


def command(line: str) -> str:
    """Run a command of dpkv as you would type it, and return what it prints."""
    arguments = line.removeprefix("dpkv ").split()
    done = subprocess.run(
        [sys.executable, "-m", "dpkv", *arguments], capture_output=True, text=True, check=True
    )
    print(f"$ {line}\n{done.stdout}")
    return done.stdout


# %% [markdown]
# ## 1. The table
#
# Two columns, kilometres east and north of the town square. `dpkv datasets make` writes the table
# that also lies in `datasets/` of the project.

# %%
command("dpkv datasets make clinic_patients --out clinic_patients.csv")
patients = clinic_patients()
print(f"{len(patients)} patients, {patients.shape[1]} columns")

# %% [markdown]
# ## 2. What is public?
#
# Three facts have to be settled before anybody looks at the records:
#
# - **the bounds.** The town's map ends 10 km from the square. That is printed on every map, so it
#   is public. The smallest and largest value *in the table* are not: they are patients' homes.
# - **the number of records.** dpkv takes it as public (its neighbours replace a record by another).
# - **eps.** With eps = 1, whatever anyone sees is at most e = 2.7 times as probable with your
#   record as with any other in its place.

# %%
BOUNDS = (-10.0, 10.0)
EPS = 1.0
K = 5

# %% [markdown]
# ## 3. How much noise?
#
# `calibrate` answers for every number of centres at once. The certified figures need nothing but
# the public facts. The published ones follow the paper's own formula from figures of the private
# table: they are for your eyes, not for a promise.

# %%
calibration = dpkv.calibrate(
    patients, eps=EPS, k=[2, K], domain=dpkv.Domain.bounded(BOUNDS, 2), method="randomized", rng=1
)
for row in calibration.rows:
    print(
        f"k = {row.k}: certified eps~ {row.certified.eps_tilde:.2f}, "
        f"a centre moves by {row.certified.noise_share:.0%} of the map's diagonal"
    )

# %% [markdown]
# A noisy *record* is a rough centre here: it moves by a good part of the map. There is a mechanism
# that adds its noise to sums over thousands of records instead. Which one to take? Trying both on
# the patients and keeping the better would be a choice that depends on the patients. So we rehearse
# on a made-up table of the same public shape: as many records, the same map, five clusters
# anywhere.

# %%
domain = dpkv.Domain.bounded(BOUNDS, 2)
made_up = mixture(len(patients), 2, K, np.random.default_rng(7)).points * 20.0 - 10.0
working = domain.to_working(made_up)
best = dpkv.estimate_optimum(working, K, restarts=5, rng=1).potential
ratios = {}
for mechanism in ("kvariates", "lloyd"):
    potentials = []
    for seed in range(5):
        rehearsal = dpkv.simulate(
            made_up, k=K, eps=EPS, bounds=BOUNDS, mechanism=mechanism, seed=seed
        )
        potentials.append(dpkv.potential(working, domain.to_working(rehearsal.centers)))
    ratios[mechanism] = float(np.mean(potentials)) / best
    print(f"{mechanism}: {ratios[mechanism]:.2f} times the potential without privacy")
chosen = min(ratios, key=ratios.__getitem__)
print(f"we take {chosen}")

# %% [markdown]
# ## 4. A budget, then the release
#
# A release cannot be taken back, and two releases tell more than one. So the data get a budget
# first. The release charges it before it touches a record. There is no seed: the randomness is the
# operating system's.

# %%
command("dpkv ledger set-budget clinic_patients.csv --eps 2")
command(
    f"dpkv release clinic_patients.csv --header --eps {EPS:g} --bounds=-10,10 --k {K} "
    f"--mechanism {chosen} --out release"
)
centers = np.loadtxt("release/centers.csv", delimiter=",", skiprows=1)
for east, north, *_size in centers:
    print(f"a clinic {east:+.1f} km east and {north:+.1f} km north of the square")

# %% [markdown]
# ## 5. Believe nothing
#
# `verify` rebuilds the grid, the mechanism and every price from the record, and checks the digests
# and the ledger. Whoever receives the release can run it too.

# %%
verified = command("dpkv verify release/release.json")
assert "pass" in verified

# %% [markdown]
# ## 6. Does it hold, and how close?
#
# The audit looks for the largest privacy loss it can find: over tables, neighbours and outputs
# exactly, and on runs of the very code with a stated confidence. It ends with exit code 3 if a
# claim is violated. `report.html` is the page to hand on.

# %%
command("dpkv audit release/release.json --data clinic_patients.csv --quick --runs 2")
report = json.loads(Path("audit/audit.json").read_text(encoding="utf-8"))
print(
    "report:", Path("audit/report.html").resolve().name, "and", len(report), "parts of audit.json"
)

# %% [markdown]
# ## 7. What was promised, in one sentence
#
# Quote it as it is, with its neighbours: an eps without its neighbouring relation says nothing.

# %%
record = dpkv.ReleaseRecord.model_validate_json(Path("release/release.json").read_bytes())
print(record.summary)
command("dpkv ledger show")
print("columns published:", ", ".join(COLUMNS))

# %% [markdown]
# What next? `dpkv audit --plant half-noise ...` shows that the auditor finds a fault, `dpkv study
# list` names the paper's experiments, and `docs/proofs/theorem-a.md` proves the certified noise.
