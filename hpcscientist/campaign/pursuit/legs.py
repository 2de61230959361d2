"""Taking one version of an idea's code to its end: piloted, mended, reviewed, measured.

A version is tried out at the pilot budget and mended until it runs; a reviewer's findings go back
to the coder; then its seeds are run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcscientist.campaign.pursuit.course import Arrived, Course, Dropped, End, Failed, Leg, Spoilt
from hpcscientist.campaign.pursuit.craft import Craft
from hpcscientist.campaign.pursuit.effort import Effort
from hpcscientist.campaign.pursuit.gate import Gate
from hpcscientist.campaign.pursuit.tryout import Tried, Tryout
from hpcscientist.records.authoring import CompleteTask, Draft, FixTask, GaveUp
from hpcscientist.records.outcome import BARRED, IdeaFailed, MachineFailed

Version = Draft | GaveUp | Tried | None


@dataclass(frozen=True, slots=True)
class Legs:
    """Takes versions through a leg of their idea's course.

    `debug_rounds` bounds the repairs of one leg, `advice_rounds` how often a reviewer's findings
    go back.
    """

    debug_rounds: int
    advice_rounds: int
    tryout: Tryout
    effort: Effort
    gate: Gate
    craft: Craft

    async def go(self, course: Course, leg: Leg, version: Version) -> End:
        """Try versions out until one is scored with its seeds, or none is left to try.

        `version` is the first of them: as it was written, or with its pilot where that has run.
        """
        while True:
            tried = await self._pilot(course, leg, version)
            if tried is None:
                return Failed(leg.failed, version if isinstance(version, GaveUp) else None)
            if tried.scored and isinstance(version, Draft | Tried):
                leg.diagnoses.clear()  # they solved what they were about
                advised = await self._advise(course, leg, tried)
                if advised is not None:
                    version, leg.kind = advised, "complete"
                    continue
            objection = await self.gate.objection(leg, tried) if tried.scored else None
            if objection is not None and leg.ready is not None:
                version = GaveUp(reason=objection)  # completing it made it worse
                continue
            if objection is not None:
                return Dropped(tried.attempt.number, objection)
            if tried.scored:
                # What a further run shows is told beside the idea, and decides nothing.
                seeds = self.tryout.full if leg.run else self.effort.run
                tried = await seeds(course.idea, tried)
                course.diary.ran(tried)
            if tried.scored:
                return Arrived(tried, leg.reviews.get(tried.attempt.number))
            if isinstance(tried.outcome, MachineFailed):
                return Spoilt(tried.attempt.number, tried.outcome, tried.report.trial_id)
            version, leg.kind = await self._mend(course, leg, tried), "debug"

    async def _pilot(self, course: Course, leg: Leg, version: Version) -> Tried | None:
        """Try out what was written; where nothing was, go back to what a reviewer found lacking."""
        if isinstance(version, GaveUp):
            course.diary.gave_up(leg, version)
        if isinstance(version, Draft):
            course.latest += 1
            tried = await self.tryout.pilot(
                course.idea, course.latest, version, leg.parent, leg.kind
            )
            course.seen.append(tried.attempt.code_hash)
            course.diary.tried(leg, tried, course.files.get(leg.parent, self.reference_files))
            course.files[course.latest] = version.files
        elif isinstance(version, Tried):
            tried = version
        elif leg.ready is not None:
            tried, leg.ready = leg.ready, None
        else:
            return None
        leg.parent = tried.attempt.number
        return tried

    async def _advise(self, course: Course, leg: Leg, tried: Tried) -> Draft | GaveUp | None:
        """Have an attempt reviewed; return what the coder made of the findings, None if no more
        is to be done about them.
        """
        hopeless = await self.gate.hopeless(leg, tried)
        if leg.run or hopeless is not None or not self.craft.advises(course.idea):
            return None
        same = await self.gate.does_nothing(leg, tried)
        review = await self.craft.review(course.brief, tried, same_as_reference=same)
        leg.reviews[tried.attempt.number] = review
        course.diary.reviewed(review)
        if review.complete or leg.advised == self.advice_rounds:
            return None
        leg.advised += 1
        leg.ready = tried
        task = CompleteTask(
            brief=course.brief,
            files=tried.draft.files,
            review=review,
            round=leg.advised,
            seen=tuple(course.seen),
        )
        author = self.craft.author
        name = f"complete/{leg.advised}"
        number = course.latest + 1
        return await self.craft.ask(course.brief, name, number, lambda: author.complete(task))

    async def _mend(self, course: Course, leg: Leg, tried: Tried) -> Draft | GaveUp | None:
        """Return a repaired version; None if no repair is left, or none is deserved."""
        assert isinstance(tried.outcome, IdeaFailed)
        leg.failed = tried.outcome
        leg.debugged += 1
        if tried.outcome.failure in BARRED:
            leg.ready = None
            return None
        if leg.debugged > self.debug_rounds:
            return None
        author, task = self.craft.author, self._repair(course, leg, tried)
        name = f"debug/{leg.run}/{leg.debugged}"
        number = course.latest + 1
        return await self.craft.ask(course.brief, name, number, lambda: author.fix(task))

    def _repair(self, course: Course, leg: Leg, tried: Tried) -> FixTask:
        assert leg.failed is not None
        if tried.kind == "debug":
            leg.diagnoses.append(tried.draft.note)
        return FixTask(
            idea=course.idea,
            files=tried.draft.files,
            outcome=leg.failed,
            log_tail=self.tryout.log_tail(tried),
            round=leg.debugged,
            rounds=self.debug_rounds,
            run=leg.run,
            earlier=tuple(leg.diagnoses),
            seen=tuple(course.seen),
        )

    @property
    def reference_files(self) -> Mapping[str, str]:
        """The code that first versions are made from."""
        return self.tryout.specs.recipe.reference
