"""What tests share: exact tests of frequencies, enumeration of Algorithm 0, ways to run dpkv."""

import os

# Every core has tests of its own. Threads of scikit-learn that spin while they wait for each other
# make a busy machine seventy times slower: there is one here, and in processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
