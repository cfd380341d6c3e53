package north

import "context"

// stand serves what a legacy client is told besides its answers, from the moment
// it is ready until the connection or all streams end. A connection has one of
// these, which counts for no limit.
func (c *stdioConn) stand() {
	s := c.session.get()
	if s == nil || c.standing {
		return
	}
	c.standing = true
	x := c.exchange()
	x.Session, x.Revision = s, s.Revision
	ctx, cancel := context.WithCancelCause(c.streams)
	c.work.Go(func() {
		defer cancel(nil)
		defer context.AfterFunc(c.h.ongoing.streaming, func() { cancel(ErrStreamsEnd) })()
		defer c.h.inUse(s.ID, nil).stop()
		defer func() {
			if p := recover(); p != nil {
				_ = c.h.panicked(x, p)
			}
		}()
		err := c.h.gw.Stand(ctx, x)
		c.h.o.Log.Debug("standing stream of the stdio client ended", "reason", err)
	})
}
