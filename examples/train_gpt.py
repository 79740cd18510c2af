"""Train a small GPT on Python's help pages, split over all NPUs that were started.

hcom-run -n 4 examples/train_gpt.py --config examples/parallel_config.yaml --verify 10
"""

from pathlib import Path

import hcom
from parallel.config import load_config
from parallel.program import OptionParser, proof, together
from parallel.trainer import Options, Trainer


def prepare() -> Trainer:
    """Read the command line and the files it names; whatever is wrong is said in one line."""
    parser = OptionParser(__doc__)
    add = parser.add_argument
    add("--config", type=Path, default=Path(__file__).with_name("parallel_config.yaml"))
    add("--steps", type=int, help="instead of training.steps")
    add("--run-dir", type=Path, help="where to write; default: runs/<start time>")
    add("--verify", type=int, default=0, metavar="N", help="compare N steps with one NPU")
    add("--resume", type=Path, metavar="DIR", help="go on from a run's last checkpoint")
    add("--checkpoint-every", type=int, default=100, metavar="K", help="0: at the end only")
    add("--stop-after", type=int, metavar="K", help="end after step K of the schedule")
    add("--timeline-steps", type=int, default=3, metavar="N", help="the last N steps are drawn")
    add("--quiet", action="store_true")
    given = vars(parser.parse_args())
    config = load_config(given.pop("config"), hcom.rank_size())
    return Trainer(config, Options(**given))


if __name__ == "__main__":
    hcom.init()
    with proof():
        together(prepare).run()
    hcom.finalize()
