package tasks_listen_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/demo"
	"github.com/penstock-mcp/penstock/test/idp"
)

func TestTheUpstreamIsHeardWithTheCallersOwnCredential(t *testing.T) {
	t.Parallel()
	p, up := idp.Start(t), newTeller(t, "one", "two")
	p.Client("gateway", "gateway-secret", idp.TokenExchange)
	g := serve(t, fmt.Sprintf(`
limits: {list_timeout: 10s, call_timeout: 10s}
servers: {default: {naming: passthrough}}
auth:
  jwt:
    - {issuer: %q, audience: penstock, algorithms: [RS256, ES256]}
upstreams:
  up:
    url: %q
    credentials: {exchange: {token_url: %q, client_id: gateway, client_secret: gateway-secret, audience: "https://up.example.com"}}
`, p.Issuer(), up.url, p.TokenURL()))
	who := map[string]*client{}
	ids := map[string]string{}
	streams := map[string]*stream{}
	for _, name := range []string{"alice", "bob"} {
		c := g.as(name)
		c.token = p.Token(t, idp.TokenSpec{Subject: name, Audience: []string{"penstock"}, Scopes: []string{"mcp"}})
		who[name], ids[name] = c, c.task("work", `{}`)
	}
	for name, c := range who {
		streams[name] = c.listen(`"`+name+`"`, ids[name])
	}
	wait(t, "two listens", func() bool { return up.open() == 2 })
	settled(t, up)
	for name := range who {
		up.tell(stands(ids[name], "input_required", ""))
		if d := streams[name].told(); d.TaskID != ids[name] {
			t.Errorf("%+v", d)
		}
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	subjects := map[string]bool{}
	for authorization := range up.bearers {
		_, claims, err := idp.Read(strings.TrimPrefix(authorization, "Bearer "))
		if err != nil {
			t.Fatalf("the upstream was shown %.20q: %v", authorization, err)
		}
		subjects[fmt.Sprint(claims["sub"])] = true
	}
	if len(subjects) != 2 || !subjects["alice"] || !subjects["bob"] {
		t.Errorf("heard and asked as %v", subjects)
	}
}

func TestAClientOverStdioIsTold(t *testing.T) {
	both(t, func(t *testing.T, notify bool) {
		up := newShop(t, demo.JobOptions{Notify: notify, Pace: 300 * time.Millisecond})
		g := serve(t, document(map[string]string{"jobs": up.url()}, ""))
		id := g.as("").task("jobs__bake_cake", cake) // anonymous is local without auth
		in, say := io.Pipe()
		hear, out := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		var serving sync.WaitGroup
		serving.Go(func() {
			defer func() { _ = out.Close() }()
			_ = g.gw.ServeStdio(ctx, "default", in, out, time.Second)
		})
		t.Cleanup(func() {
			cancel()
			_ = say.Close()
			_ = hear.Close()
			serving.Wait()
		})
		if _, err := io.WriteString(say, request(`"s"`, "subscriptions/listen", `"notifications":{"taskIds":`+quoted([]string{id, "unknown"})+`}`, declares)+"\n"); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(hear)
		lines.Buffer(nil, 1<<20)
		var seen []string
		for lines.Scan() {
			m := read[message](t, lines.Bytes())
			if len(seen) == 0 && m.Method != "notifications/subscriptions/acknowledged" {
				t.Fatalf("the first message is %s", lines.Bytes())
			}
			seen = append(seen, m.Method)
			if !strings.Contains(lines.Text(), `"`+subID+`":"s"`) || strings.Contains(lines.Text(), "unknown") {
				t.Errorf("%s", lines.Text())
			}
			if strings.Contains(lines.Text(), `"completed"`) {
				return
			}
		}
		t.Fatalf("heard %v", seen)
	})
}
