"""``python -m dpkv`` is the command ``dpkv``."""

from dpkv.start import main

if __name__ == "__main__":
    main()
