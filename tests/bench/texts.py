"""Texts for measurements: sentences of English words, each text different, at least as long as asked."""
import random

WORDS = ("the of and in to was is a for on as with by he at from his it an were which are had not but be their one who "
         "also has its first two after new other been this her they all into she there time when where only over may "
         "some more than no out so up them about then would between many during later most made city town river "
         "bridge war church house school music film book game team club league season village county state north "
         "south east west street road station line island water land people family father son king queen church "
         "company government party member president minister army battle air force police court law university "
         "college student teacher history science art work song album band record single year century day night").split()


def make(count, tokens, seed=1):
    """Texts of at least `tokens` word pieces; max_tokens cuts them to that."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        words = [rng.choice(WORDS) for _ in range(tokens)]
        for end in range(9, tokens, 10):
            words[end] += "."
        made.append(" ".join(words))
    return made
