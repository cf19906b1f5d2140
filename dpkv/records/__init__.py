"""The private room: records, and the one door to them.

    mechanism  --question, frozen and priced-->  curator  --tasks-->          blocks of records
               <--noisy answer-----------------           <--exact integers--

``questions``   what may be asked: one file each, with its proof; the only part mechanisms import
``curator``     answers the next question of a plan at its price, and refuses any other
``transcript``  what was asked and answered, its exact probability and its privacy loss
``arrays``      records in memory or mapped
``owners``      whose rows are whose, where a record is all rows of a person
``block``       rows and weights, as a question sees them
"""

from dpkv.records.arrays import ArrayRecords, one_row_each
from dpkv.records.curator import Curator, Program, curator_of, run_on_points
from dpkv.records.owners import Owners
from dpkv.records.questions.question import Ask, Question, Records
from dpkv.records.transcript import Exchange, Replay, Transcript

__all__ = [
    "ArrayRecords",
    "Ask",
    "Curator",
    "Exchange",
    "Owners",
    "Program",
    "Question",
    "Records",
    "Replay",
    "Transcript",
    "curator_of",
    "one_row_each",
    "run_on_points",
]
