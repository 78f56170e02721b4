package workflows

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// handlers registers what people may ask and order.
func (c *crawl) handlers(ctx workflow.Context) error {
	open := func() error {
		if c.refuse || c.outcome != "" {
			return ending("the crawl is ending; start it again with: starter crawl")
		}
		return nil
	}
	if err := workflow.SetQueryHandler(ctx, QryStatus, func() (contract.CrawlStatus, error) { return c.status(), nil }); err != nil {
		return err
	}
	pause := func(paused bool) func(workflow.Context) error {
		return func(ctx workflow.Context) error {
			c.st.Paused = paused
			if c.phase == PhaseCrawl {
				c.tellAll(ctx)
				c.tellLoads(ctx)
			}
			c.nudge()
			return nil
		}
	}
	validate := workflow.UpdateHandlerOptions{Validator: func(workflow.Context) error { return open() }}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, UpPause, pause(true), validate); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, UpResume, pause(false), validate); err != nil {
		return err
	}
	err := workflow.SetUpdateHandlerWithOptions(ctx, UpSetRate, c.setRate, workflow.UpdateHandlerOptions{
		Validator: func(_ workflow.Context, r contract.Rate) error {
			if r.DelayMS < 0 || r.DelayMS > 3_600_000 || r.Parallelism < 0 || r.Parallelism > 64 {
				return refusal(fmt.Errorf("delay %d ms, parallelism %d: the delay must be 0 to 1h, the parallelism 1 to 64 (0: unchanged)", r.DelayMS, r.Parallelism))
			}
			return open()
		},
	})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, UpAddSeeds, c.addSeeds, workflow.UpdateHandlerOptions{
		Validator: func(_ workflow.Context, a contract.AddSeeds) error {
			if len(a.URLs) == 0 || len(a.URLs) > 10_000 {
				return refusal(fmt.Errorf("%d seeds: give 1 to 10000 at a time", len(a.URLs)))
			}
			return open()
		},
	})
}

// refusal makes the error of an order that cannot be obeyed one that whoever gave
// it can tell from trouble.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	return temporal.NewApplicationError(err.Error(), ErrTypeRefused)
}

// ending refuses an order that comes too late.
func ending(text string) error { return temporal.NewApplicationError(text, ErrTypeEnding) }

func (c *crawl) nudge() { c.wake.SendAsync(true) }

func (c *crawl) addSeeds(ctx workflow.Context, a contract.AddSeeds) error {
	c.accepted++
	c.adding++
	defer func() { c.adding--; c.nudge() }()
	if err := workflow.Await(ctx, func() bool { return c.phase != PhaseSeed }); err != nil {
		return err
	}
	actx := workflow.WithActivityOptions(ctx, sharedOptions(fmt.Sprintf("add %d seeds", len(a.URLs))))
	return workflow.ExecuteActivity(actx, ActSeed, contract.SeedInput{Run: c.run, Spec: c.st.Spec, Only: a.URLs}).Get(ctx, nil)
}

// setRate states a spec with another politeness and passes its offset on. One
// at a time: each builds on the spec of the one before.
func (c *crawl) setRate(ctx workflow.Context, r contract.Rate) error {
	if err := c.rating.Lock(ctx); err != nil {
		return err
	}
	defer c.rating.Unlock()
	if err := workflow.Await(ctx, func() bool { return c.phase != PhaseSeed }); err != nil {
		return err
	}
	raw, err := withRate(c.st.Spec, r)
	if err != nil {
		return err
	}
	actx := workflow.WithActivityOptions(ctx, sharedOptions("state the new rate"))
	var seeded contract.SeedResult
	if err := workflow.ExecuteActivity(actx, ActSeed, contract.SeedInput{Run: c.run, Spec: raw}).Get(ctx, &seeded); err != nil {
		return err
	}
	c.st.Spec, c.st.SpecAt, c.run.SpecAt = raw, seeded.SpecAt, seeded.SpecAt
	c.tellAll(ctx)
	return nil
}

// withRate changes two numbers of the spec and keeps every other byte's meaning.
func withRate(raw json.RawMessage, r contract.Rate) (json.RawMessage, error) {
	var spec, politeness map[string]json.RawMessage
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(spec["politeness"], &politeness); err != nil {
		return nil, err
	}
	delay := (time.Duration(r.DelayMS) * time.Millisecond).String()
	politeness["delay"], _ = json.Marshal(delay)
	if r.Parallelism > 0 {
		politeness["parallelism"], _ = json.Marshal(r.Parallelism)
	}
	var err error
	if spec["politeness"], err = json.Marshal(politeness); err != nil {
		return nil, err
	}
	return json.Marshal(spec)
}
