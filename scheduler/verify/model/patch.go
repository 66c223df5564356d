package model

// readBase notes what a PATCH reads from an owner: the newest state, and the newest revision.
func (op *operation) readBase(c *stored) {
	switch {
	case c.Kind == absent || c.Version < op.Base:
	case c.Version > op.Base:
		op.Base, op.BaseRev, op.Over = c.Version, c.Rev, c.Kind == tombstone
	default:
		op.BaseRev, op.Over = max(op.BaseRev, c.Rev), op.Over || c.Kind == tombstone
	}
}

// base ends the reading of a PATCH. The revision is above the revision that was read. The first write makes
// odd revisions, the second write even revisions.
func (x *stepper) base(i int) {
	op := &x.now.Ops[i]
	if op.Over || op.Base == 0 {
		x.refuse(i, unmet, "404")
		return
	}
	next := *x.now
	own := &next.Ops[i]
	for own.Version, own.Rev = op.Base, int8(1+i); own.Rev <= op.BaseRev; own.Rev += 2 {
	}
	x.urgent(&next, "PATCH has read v%d.%d, makes v%d.%d", op.Base, op.BaseRev, own.Version, own.Rev)
}

// patch is rule "a patch is a revision": the copy gets the revision, and keeps everything else. A copy that
// is leased and has not fired loses the lease, and comes due at once. Without the version, nothing is done.
func (s *state) patch(sc *Scenario, shard int8, w written) bool {
	c := &s.Copies[shard]
	if c.Kind != live || c.Version != w.version || c.Rev >= w.rev {
		return false
	}
	c.Rev = w.rev
	if sc.Rules.PatchEndsLease && c.Token != noToken && !c.Fired {
		c.Token, c.Score = noToken, s.Now
	}
	return true
}

// join is what a merge of two states of one version makes of the revisions: the newer state, and the
// newer revision. The result is whether the revision is all that is new.
func (s *state) join(sc *Scenario, c *stored, w *written) (revised bool) {
	if c.Kind != live || w.kind != live || c.Version != w.version || !sc.Rules.PatchKept && w.why != asPatch {
		return false
	}
	revised = w.rev > c.Rev && w.order() <= c.order()
	w.rev = max(w.rev, c.Rev)
	return revised
}

// revisedSince reports whether the copy has a newer revision of the version.
func (c *stored) revisedSince(version, rev int8) bool {
	return c.Kind == live && c.Version == version && c.Rev > rev
}

// sameRevision reports whether no PATCH came between the claim and the end.
func (s *state) sameRevision(sc *Scenario, c *stored, w *written) bool {
	return c.Rev == w.rev || !sc.Rules.PatchedEnds
}

// revised returns the PATCH that made a revision.
func (s *state) revised(rev int8) *operation { return &s.Ops[(rev+1)%2] }
