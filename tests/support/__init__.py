"""What tests share: exact tests of frequencies, enumeration of Algorithm 0, ways to run dpkv."""
