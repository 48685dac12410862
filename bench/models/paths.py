"""Makes the modules of ../peers importable."""
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "peers"))
