// Package fakecloud is a cloud in memory that misbehaves as clouds do: its machines take a while to start and to be listed, are
// sold out by type and zone, and are taken back; it throttles, fails, and loses answers of what it has done. Time is an input.
package fakecloud

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// The errors of calls. With [ErrLost] nobody knows whether it was done.
var (
	ErrThrottled = errors.New("throttled")
	ErrSoldOut   = errors.New("sold out")
	ErrRefused   = errors.New("refused")
	ErrDenied    = errors.New("denied")
	ErrLost      = errors.New("connection reset by peer")
)

// Order is a machine to buy.
type Order struct {
	Token, Name, Type, Zone string
	Tags                    map[string]string
	UserData                string
	// Public has it get a public address.
	Public bool
}

// Machine is one that was bought, from then on for ever.
type Machine struct {
	Order
	ID, IP string
	// PublicIP is its public address, "" if it was bought without.
	PublicIP string
	Launched time.Time
	// Ready is when it runs, Notice when it was told to be taken back, End when it ends, Ended when it has ended; zero if not.
	Ready, Notice, End, Ended time.Time
	// Asked says that we have had it ended.
	Asked bool
}

// Alive reports whether it costs money.
func (m *Machine) Alive(now time.Time) bool { return m.Ended.IsZero() || m.Ended.After(now) }

// Faults are how often calls go wrong, each a share of 1.
type Faults struct {
	// Throttle is that of calls refused as too many, LoseBefore that of those lost on their way, and LoseAfter that of those
	// that were carried out and whose answer was lost.
	Throttle, LoseBefore, LoseAfter float64
}

// Cloud is the cloud. Its fields are set before it is used, or by its methods.
type Cloud struct {
	// Boot is how long machines take to run, Lag how long until they are listed, StopFor how long they take to end.
	Boot, Lag, StopFor time.Duration
	// Slowest is how long an order may take to be carried out at the most, a tenth of it at the least; until then its answers
	// are lost. 0 carries them out at once.
	Slowest time.Duration
	// Denied has all calls refused.
	Denied bool
	// AddressesAfter is how long machines have no address at first.
	AddressesAfter time.Duration

	mu       sync.Mutex
	random   *rand.Rand
	now      time.Time
	faults   Faults
	stock    map[string]int
	machines []*Machine
	calls    map[string]int
	// pending are orders that are not carried out yet, by token.
	pending map[string]*pending
}

// pending is an order that takes its time.
type pending struct {
	order Order
	due   time.Time
}

// New returns a cloud at a time.
func New(seed uint64, now time.Time) *Cloud {
	return &Cloud{
		random: rand.New(rand.NewPCG(seed, 1)), now: now, stock: map[string]int{}, calls: map[string]int{}, pending: map[string]*pending{},
		Boot: 20 * time.Second, StopFor: 5 * time.Second,
	}
}

// Set changes how often calls go wrong.
func (c *Cloud) Set(faults Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = faults
}

// Stock sets how many more machines of a type a zone has; without it there are always more.
func (c *Cloud) Stock(instanceType, zone string, count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stock[instanceType+"/"+zone] = count
}

// Restock has as many of all as there may be.
func (c *Cloud) Restock() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.stock)
}

// At sets the time, carries out what is due by then, and has end what ends.
func (c *Cloud) At(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
	for token, p := range c.pending {
		if !p.due.After(now) {
			delete(c.pending, token)
			c.launch(p.order)
		}
	}
	for _, m := range c.machines {
		if m.Ended.IsZero() && !m.End.IsZero() && !m.End.After(now) {
			m.Ended = now
		}
	}
}

// Now is the time.
func (c *Cloud) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Machines are copies of all that were ever bought.
func (c *Cloud) Machines() []Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Machine, len(c.machines))
	for i, m := range c.machines {
		out[i] = *m
	}
	return out
}

// Calls is how often something was asked.
func (c *Cloud) Calls(action string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[action]
}

// Put adds a machine as it is, as if it had been bought by others.
func (c *Cloud) Put(m Machine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machines = append(c.machines, &m)
}

// Interrupt takes a machine back after a while.
func (c *Cloud) Interrupt(id string, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		if m.ID == id && m.Notice.IsZero() && m.Ended.IsZero() {
			m.Notice, m.End = c.now, c.now.Add(after)
		}
	}
}

// call decides what becomes of a call: an error before it is carried out, or the loss of its answer.
func (c *Cloud) call(action string) (before error, lose bool) {
	c.calls[action]++
	switch {
	case c.Denied:
		return ErrDenied, false
	case c.random.Float64() < c.faults.Throttle:
		return ErrThrottled, false
	case c.random.Float64() < c.faults.LoseBefore:
		return ErrLost, false
	}
	return nil, c.random.Float64() < c.faults.LoseAfter
}

// Run buys a machine. The same token is answered by the same machine.
func (c *Cloud) Run(order Order) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err, lose := c.call("run")
	if err != nil {
		return "", err
	}
	if c.pending[order.Token] != nil {
		return "", ErrLost
	}
	m := c.bought(order.Token)
	if m == nil {
		offer := order.Type + "/" + order.Zone
		if left, limited := c.stock[offer]; limited {
			if left <= 0 {
				return "", ErrSoldOut
			}
			c.stock[offer] = left - 1
		}
		if c.Slowest > 0 {
			least := c.Slowest / 10
			c.pending[order.Token] = &pending{order: order, due: c.now.Add(least + time.Duration(c.random.Int64N(int64(c.Slowest-least))))}
			return "", ErrLost
		}
		m = c.launch(order)
	}
	if lose {
		return "", ErrLost
	}
	return m.ID, nil
}

func (c *Cloud) launch(order Order) *Machine {
	number := len(c.machines) + 1
	m := &Machine{
		Order: order, ID: fmt.Sprintf("ins-%06d", number), IP: fmt.Sprintf("10.%d.%d.%d", number>>16&255, number>>8&255, number&255),
		Launched: c.now, Ready: c.now.Add(c.Boot),
	}
	if order.Public {
		m.PublicIP = fmt.Sprintf("203.0.%d.%d", 113+number>>8, number&255)
	}
	c.machines = append(c.machines, m)
	return m
}

func (c *Cloud) bought(token string) *Machine {
	for _, m := range c.machines {
		if token != "" && m.Token == token {
			return m
		}
	}
	return nil
}

// List returns the machines that have the tags, or are among those named, and have not ended long ago.
func (c *Cloud) List(tags map[string]string, ids []string) ([]Machine, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err, lose := c.call("list")
	if err != nil || lose {
		return nil, errors.Join(err, map[bool]error{true: ErrLost}[lose])
	}
	var out []Machine
	for _, m := range c.machines {
		tagged := true
		for key, value := range tags {
			tagged = tagged && m.Tags[key] == value
		}
		if !tagged && !slices.Contains(ids, m.ID) || c.now.Sub(m.Launched) < c.Lag {
			continue
		}
		if !m.Ended.IsZero() {
			continue // as it is no more
		}
		shown := *m
		if c.now.Sub(m.Launched) < c.AddressesAfter {
			shown.IP, shown.PublicIP = "", ""
		}
		out = append(out, shown)
	}
	return out, nil
}

// Terminate ends machines. Unknown ones are an error, after the others were ended.
func (c *Cloud) Terminate(ids []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err, lose := c.call("terminate")
	if err != nil {
		return err
	}
	for _, m := range c.machines {
		if slices.Contains(ids, m.ID) && m.Ended.IsZero() {
			m.Asked = true
			if end := c.now.Add(c.StopFor); m.End.IsZero() || m.End.After(end) {
				m.End = end
			}
		}
	}
	if lose {
		return ErrLost
	}
	return nil
}
