package workflows

import "trawl/internal/contract"

// budget gives the shards their share of a page limit. The sum of all ceilings
// never exceeds the limit, so no page is spent twice; a share is taken back from
// an idle shard by a lower grant, and counts as free only once the shard has
// acknowledged it.
type budget struct {
	limit  int64 // 0: none
	grants []contract.GrantState
}

func newBudget(limit int64, shards int, resume bool) *budget {
	b := &budget{limit: limit, grants: make([]contract.GrantState, shards)}
	if limit == 0 {
		return b
	}
	for i := range b.grants {
		share := limit / int64(shards)
		if int64(i) < limit%int64(shards) {
			share++
		}
		if resume {
			// What was spent is not known yet: the first settled reports tell, and
			// until they all have, nothing is free.
			b.give(i, 0)
			b.grants[i].Ceiling = limit
			continue
		}
		b.give(i, share)
	}
	return b
}

func (b *budget) give(shard int, total int64) {
	g := &b.grants[shard]
	g.Grant = contract.Grant{Number: g.Grant.Number + 1, Total: total}
	g.Ceiling = max(g.Ceiling, total)
}

// settled: the shard's report names its latest grant and has nothing open.
func settled(r contract.ShardReport, g contract.GrantState) bool {
	return r.Open == 0 && r.Grant == g.Grant.Number && (r.State == contract.ShardIdle || r.State == contract.ShardStarved)
}

// balance moves what is free to the starved. It answers which shards have a new
// grant, and whether nothing is left for those that starve.
func (b *budget) balance(reports []contract.ShardReport) (changed []int, exhausted bool) {
	if b.limit == 0 {
		return nil, false
	}
	free := b.limit
	var starved []int
	waiting := false
	for i, r := range reports {
		g := &b.grants[i]
		if settled(r, *g) {
			g.Ceiling = max(g.Grant.Total, r.Totals.Spent)
		} else {
			waiting = true
		}
		if r.State == contract.ShardStarved && settled(r, *g) {
			g.Ceiling = r.Totals.Spent
			starved = append(starved, i)
		}
		free -= g.Ceiling
	}
	if len(starved) == 0 {
		return nil, false
	}
	if free > 0 {
		for n, i := range starved {
			share := free / int64(len(starved)-n)
			if share == 0 {
				continue
			}
			free -= share
			b.give(i, reports[i].Totals.Spent+share)
			changed = append(changed, i)
		}
		return changed, false
	}
	return b.takeBack(reports), !waiting && !b.surplus(reports)
}

// takeBack lowers the grants of idle shards to what they have spent.
func (b *budget) takeBack(reports []contract.ShardReport) (changed []int) {
	for i, r := range reports {
		g := &b.grants[i]
		if r.State == contract.ShardIdle && settled(r, *g) && g.Grant.Total > r.Totals.Spent {
			ceiling := g.Ceiling
			b.give(i, r.Totals.Spent)
			b.grants[i].Ceiling = ceiling
			changed = append(changed, i)
		}
	}
	return changed
}

// surplus: a shard still holds more than it spent, perhaps unacknowledged.
func (b *budget) surplus(reports []contract.ShardReport) bool {
	for i, r := range reports {
		if b.grants[i].Ceiling > r.Totals.Spent {
			return true
		}
	}
	return false
}
