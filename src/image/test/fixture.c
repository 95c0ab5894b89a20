int fixture_;
