package main

import (
	"fmt"
)

// taskResult is what the clients read of a task.
type taskResult struct {
	Type   string `json:"resultType"`
	ID     string `json:"taskId"`
	Status string `json:"status"`
}

// mint calls a tool and returns the id of the task that is made of the call.
func (c *client) mint(tool string) (id string, err error) {
	c.params = append(append(append(c.params[:0], `"name":"`...), tool...), `","arguments":{"size":0}`...)
	c.meta("")
	if err := c.ask("tools/call", tool); err != nil {
		return "", err
	}
	made, err := decode[taskResult](c.body, c.id)
	if err == nil && (made.Type != "task" || made.ID == "") {
		err = fmt.Errorf("a result of type %q, want a task", made.Type)
	}
	if err != nil {
		return "", c.wrong(fmt.Errorf("tools/call: %w", err))
	}
	return made.ID, nil
}

// poll asks for a task, and checks that it is that one.
func (c *client) poll(id string) error {
	c.params = append(append(append(c.params[:0], `"taskId":"`...), id...), '"')
	c.meta("")
	if err := c.ask("tasks/get", id); err != nil {
		return err
	}
	is, err := decode[taskResult](c.body, c.id)
	if err == nil && (is.Type != "complete" || is.ID != id || is.Status != "working") {
		err = fmt.Errorf("%+v, want %s", *is, id)
	}
	if err != nil {
		return c.wrong(fmt.Errorf("tasks/get: %w", err))
	}
	return nil
}
